"""The story: the only package that knows the order of the hops and opens spans."""
