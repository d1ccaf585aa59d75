"""A laboratory for feature learning: reproduce, measure, apply.

Importing this package loads nothing heavy; the rooms are imported by name:
`featlearn.tasks`, `featlearn.nets`, `featlearn.learn`, `featlearn.kernels`, `featlearn.measure`, `featlearn.lab`, ...
"""

__version__ = "0.1.0"
