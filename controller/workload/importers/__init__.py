"""Import of other tools' files as jobs: one module a format, all with the signature of ``base.Importer``."""
