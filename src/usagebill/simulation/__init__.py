"""Whole companies in time, made from a seed, billed by the library and recomputed by an oracle that shares no code.

`companies` makes one, `playing` lives it and logs what happened, `oracle` says what each document should come to,
`conservation` what must balance, `sameness` what must not depend on workers, `shrinking` finds the shortest that fails.
"""
