"""What runs where and when: slices of devices and threads as sets of time."""
