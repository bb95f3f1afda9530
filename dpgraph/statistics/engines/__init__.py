"""Engines that read and count rows: in one process, out of core, on a cluster."""
