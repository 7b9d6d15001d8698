"""A served usagebill, called from afar: requests made from the table of endpoints, and what its answers become."""
