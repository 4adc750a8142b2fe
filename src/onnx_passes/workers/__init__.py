"""Where work is done: in this process, in others on this machine, or on a cluster that people already run."""
