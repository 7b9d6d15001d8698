"""What can be done: one module per resource; each operation takes its unit of work first."""
