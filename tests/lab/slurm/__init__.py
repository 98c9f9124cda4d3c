"""A Slurm cluster on this machine: a real controller, this machine as the login node, aarch64 compute nodes.

The nodes' slurmd and slurmstepd are this machine's own: emulated ones hang in a few per cent of the steps with much
standard input. On x86_64 a preloaded uname() makes them say aarch64. Every program of a job is aarch64,
under emulation.
"""
