"""What callers send: inputs, what their fields mean, how they are refused."""
