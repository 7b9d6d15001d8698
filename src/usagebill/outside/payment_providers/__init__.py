"""Payment providers over the network: one module for each kind, behind one port."""
