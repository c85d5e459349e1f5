"""What runs when: partitions, jobs, sensor and schedule."""
