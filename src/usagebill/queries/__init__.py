"""Queries: look things up for rating and operations; they decide nothing and write nothing."""
