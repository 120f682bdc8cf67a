"""Speed and memory of intrs beside the engines that users would pick instead. See README.md in this folder."""
