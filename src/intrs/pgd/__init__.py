"""Attacks on networks and smoothed classifiers: projected gradient descent on the integer grid (extra `train`)."""
