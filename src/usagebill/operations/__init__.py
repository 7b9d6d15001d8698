"""What can be done: one module a resource; each operation takes its unit of work first."""
