"""What the pages of the console and of the portal have in common."""
