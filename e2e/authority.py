"""Authority of certificates for tests of encrypted connections, made by openssl."""

import subprocess


def certificates(folder):
    """Creates an authority and a certificate for 127.0.0.1. Returns the paths of both, and of the certificate's key."""

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder, timeout=60)

    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    openssl(*new, "-subj", "/CN=authority of a test", "-keyout", "ca.key", "-out", "ca.pem")
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:FALSE"]
    host = ["-subj", "/CN=host of a test", "-addext", "subjectAltName=IP:127.0.0.1"]
    openssl(*new, *signed, *host, "-keyout", "host.key", "-out", "host.pem")
    return [folder / name for name in ["ca.pem", "host.pem", "host.key"]]
