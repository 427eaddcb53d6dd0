package worker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/toolfleet/toolfleet/events"
)

// maxMessage bounds the message of a failure, in bytes.
const maxMessage = 1 << 10

// withoutURL drops the URL that net/http puts into its errors: it may hold a
// secret.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// codeOf returns the code of what went wrong with a request, or otherwise.
func codeOf(err error, x *exchange, otherwise events.Code) events.Code {
	var unsupported mcp.UnsupportedProtocolVersionError
	switch {
	case x.status == http.StatusUnauthorized, x.status == http.StatusForbidden,
		errors.Is(err, transport.ErrAuthorizationRequired):
		return events.AuthenticationNeeded
	case errors.As(err, &unsupported), x.failure != nil && x.failure.Code == codeUnsupportedVersion:
		return events.ProtocolUnsupported
	case x.failure != nil:
		return otherwise
	case x.status >= http.StatusMultipleChoices:
		return events.HTTPStatus(x.status)
	case errors.Is(err, errFrameTooLarge):
		return events.FrameTooLarge
	}
	return networkCode(err, otherwise)
}

// networkCode tells the ways in which a network fails apart.
func networkCode(err error, otherwise events.Code) events.Code {
	var (
		dns         *net.DNSError
		op          *net.OpError
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		record      tls.RecordHeaderError
		alert       tls.AlertError
	)
	switch {
	case errors.As(err, &dns):
		return events.DNS
	case errors.Is(err, syscall.ECONNREFUSED):
		return events.ConnectionRefused
	case errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &record), errors.As(err, &alert):
		return events.TLS
	case errors.Is(err, context.DeadlineExceeded):
		return events.ConnectTimeout
	case errors.As(err, &op), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return events.ConnectionLost
	}
	return otherwise
}

// httpEnding is the end of a connection whose server cannot be dialled.
func httpEnding(err error) ending {
	err = withoutURL(err)
	return newEnding(networkCode(err, events.ConnectionLost), err.Error())
}

// ending says why the attempt failed, elapsed after its beginning.
func (d *dialing) ending(err error, elapsed time.Duration) ending {
	var f events.Failure
	var unresolved *UnresolvedError
	switch {
	case errors.As(err, &unresolved):
		return ending{code: events.UnresolvedVariable, message: unresolved.Error(), retry: unresolved.Retry}
	case errors.As(err, &f):
		return ending{code: f.Code, message: f.Message, retry: f.Retry}
	case d.link != nil && closed(d.link.over):
		end := d.link.End()
		if end.code == events.Exited && d.phase == events.PhaseHandshake {
			end.code = events.StartupCrash
			end.message += " before the handshake was done"
		}
		return end
	}
	otherwise := events.HandshakeFailed
	if d.phase == events.PhaseList {
		otherwise = events.ToolsListFailed
	}
	x := d.last
	if x == nil {
		x = &exchange{}
	}
	end := newEnding(codeOf(err, x, otherwise), err.Error())
	switch {
	case end.code == events.AuthenticationNeeded:
		end.message = "HTTP " + strconv.Itoa(x.status)
		if x.hint != "" {
			end.message += ", WWW-Authenticate: " + x.hint
		}
	case end.code == events.ConnectTimeout:
		end.message = "not done after " + elapsed.Round(time.Millisecond).String()
		if d.budget > 0 {
			end.message += ", the limit is " + d.budget.String()
		}
		if d.link != nil && d.link.strays != nil {
			end.message = strings.TrimSuffix(end.message+"; "+d.link.strays.String(), "; ")
		}
	case x.failure != nil:
		end.message = x.failure.Error()
	case end.code == events.ProtocolUnsupported:
		end.message += "; this worker speaks " + strings.Join(mcp.ValidProtocolVersions, ", ")
	}
	return end
}
