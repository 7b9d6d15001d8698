"""What each document of a company should come to, recomputed from the log of what happened.

Nothing here is shared with the rest of usagebill: only the standard library, fractions, and days. It is slow and plain,
written from the description of the interface. Where it has no opinion it says so, with the reason (`Verdict.unsure`).
"""
