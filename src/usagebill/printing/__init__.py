"""Printing: documents as PDF files."""
