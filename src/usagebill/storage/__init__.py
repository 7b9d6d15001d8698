"""Storage: narrow ports, and engines that implement them."""
