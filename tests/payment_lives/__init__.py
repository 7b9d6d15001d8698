"""Random lives of debts: five accounts at three providers, everything that goes wrong between them and us, and both
books compared at the end.
"""
