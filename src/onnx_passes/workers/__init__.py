"""Workers: this process, other processes on this machine, or an existing cluster."""
