# One image for web, worker, beat and the bake of the template; docker-compose.yml says which
# privileges each of them gets.
#
# Behind a company proxy or mirror, nothing here needs to change:
#   docker build --secret id=ca_bundle,src=company.pem --secret id=pip_config,src=pip.conf \
#     --build-arg HTTPS_PROXY=… --build-arg PYTHON_IMAGE=registry.example/python:3.11.11-slim-bookworm .
# The certificates stay in the image (they are public, and needed at run time); pip.conf does not.

ARG PYTHON_IMAGE=python:3.11.11-slim-bookworm

# --- certificates: what every later stage trusts -------------------------------------------------
FROM ${PYTHON_IMAGE} AS base
RUN --mount=type=secret,id=ca_bundle,target=/run/company.pem \
    if [ -s /run/company.pem ]; then \
      cp /run/company.pem /usr/local/share/ca-certificates/company.crt && update-ca-certificates; \
    fi
# Tools that bring their own list of certificates are pointed to the system's.
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt

# --- build: the locked dependencies, then drydock ------------------------------------------------
FROM base AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/drydock
WORKDIR /src
COPY requirements-build.lock requirements.lock ./
RUN --mount=type=secret,id=pip_config,target=/etc/pip.conf \
    /opt/drydock/bin/pip install --require-hashes -r requirements-build.lock -r requirements.lock
COPY . .
RUN /opt/drydock/bin/pip install --no-deps --no-build-isolation --no-index . \
    && /opt/drydock/bin/pip uninstall --yes setuptools pip

# --- run -----------------------------------------------------------------------------------------
FROM base AS run
# git: mirrors, bundles and pushes. runsc and bubblewrap: machines. mmdebstrap: the template.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap git mmdebstrap runsc \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --home-dir /var/lib/drydock --shell /usr/sbin/nologin drydock \
    && install -d -o drydock -g drydock -m 0755 /var/lib/drydock
COPY --from=build /opt/drydock /opt/drydock
ENV PATH=/opt/drydock/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1 \
    DRYDOCK_STATE_DIR=/var/lib/drydock
# A volume that is mounted here for the first time takes over the folder's owner.
VOLUME /var/lib/drydock
USER drydock
WORKDIR /var/lib/drydock
EXPOSE 8000
ENTRYPOINT ["drydock"]
CMD ["--help"]
