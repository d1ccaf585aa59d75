"""Domain generalisation by nuclear-norm regularisation: the plane, and digits."""
