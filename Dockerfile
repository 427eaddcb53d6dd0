# syntax=docker/dockerfile:1

# The programs of toolfleet, and the telemetry images with a program for their
# health checks.
#
#   docker build --target toolfleet -t toolfleet .
#
# The image holds nothing but the programs: no shell, no package manager, no
# interpreter. A worker of it reaches servers by URL and runs programs that need
# none. Where servers are to be run by npx, uvx or the like, build an image of what
# they need and take the programs along:
#
#   FROM node:22-alpine
#   COPY --from=toolfleet /usr/local/bin/ /usr/local/bin/

FROM golang:1.26.8-alpine AS build
RUN apk add --no-cache ca-certificates tzdata
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/usr/local/bin/ ./cmd/toolfleet ./cmd/controller ./cmd/worker
# What a program expects of a system. The volume of a container begins as what the
# image has in its place, so its owner is the user who writes to it.
RUN mkdir -p /out/etc/ssl/certs /out/usr/share /out/var/lib/toolfleet /out/tmp \
 && cp /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/ \
 && cp -r /usr/share/zoneinfo /out/usr/share/zoneinfo \
 && echo 'toolfleet:x:65532:65532:toolfleet:/var/lib/toolfleet:/sbin/nologin' > /out/etc/passwd \
 && chmod 1777 /out/tmp && chown 65532:65532 /out/var/lib/toolfleet

FROM scratch AS toolfleet
COPY --from=build /out/ /
ENV PATH=/usr/local/bin HOME=/var/lib/toolfleet XDG_STATE_HOME=/var/lib/toolfleet
USER 65532:65532
WORKDIR /var/lib/toolfleet
ENTRYPOINT []
CMD ["toolfleet", "--help"]

FROM otel/opentelemetry-collector:0.161.0 AS collector
COPY --from=build /out/usr/local/bin/toolfleet /usr/local/bin/toolfleet

FROM jaegertracing/jaeger:2.13.0 AS jaeger
COPY --from=build /out/usr/local/bin/toolfleet /usr/local/bin/toolfleet
