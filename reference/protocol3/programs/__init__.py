"""Program packages: manifest, archive, descriptor, publication, stores."""
