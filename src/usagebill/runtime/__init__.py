"""The unit of work, its clock, and long results computed on a snapshot."""
