"""What remembers: narrow ports, and engines that implement them."""
