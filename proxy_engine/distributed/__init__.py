"""One model on several machines: a process group whose ranks share its layers."""
