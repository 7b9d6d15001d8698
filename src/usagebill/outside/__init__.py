"""Jobs that call outside services, or take long: while no transaction is open."""
