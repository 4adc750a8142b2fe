"""What passes that compute in integers share: types that hold them, and twins of values in another form."""
