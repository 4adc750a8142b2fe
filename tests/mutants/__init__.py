"""Small changes to the code that has to be trusted, each of which its tests have to notice."""
