"""Other tools' files to jobs: one module a format, all with the signature of ``base.Importer``."""
