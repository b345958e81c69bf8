"""Where clients run. Today on this machine; the places are chosen here and nowhere else."""
