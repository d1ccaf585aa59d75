"""Executable claims of the work on minibatch SGD and XOR, one module per part of its argument."""
