"""Pairs of texts that one method proves, and changes that it must refuse: a file of them for each method."""
