"""What commands share: tables, files, options, errors."""
