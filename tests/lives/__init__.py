"""Short random lives of one customer, and the sums that hold over each of them: `python -m tests.lives --help`.

`life` makes a life from a seed, `play` plays it in a sandbox, `owed` computes from first principles what it costs, and
`sums` states what must hold.
"""
