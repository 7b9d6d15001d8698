"""Operations: one module per resource; each operation takes its unit of work first."""
