"""armstage: aarch64 machine-learning toolchains, staged from any host and proven on the node.

Pure Python, standard library only, Python 3.9 and newer: this package runs on nodes.
"""
