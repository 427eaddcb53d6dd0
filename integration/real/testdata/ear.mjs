// Loaded into a server before its own program, to watch it; see aided in
// real_test.go.
import { appendFileSync } from "node:fs";
import { Server } from "node:net";
import { Readable } from "node:stream";

// It would listen on all interfaces.
const listen = Server.prototype.listen;
Server.prototype.listen = function (port, ...rest) {
  return listen.call(this, port, "127.0.0.1", ...rest);
};

// Each cancellation that it is sent, over its standard input or in a request,
// becomes a line of the file CANCELLATIONS: the program itself shows none.
const push = Readable.prototype.push;
Readable.prototype.push = function (chunk, ...rest) {
  if (chunk?.includes("notifications/cancelled")) {
    appendFileSync(process.env.CANCELLATIONS, "cancelled\n");
  }
  return push.call(this, chunk, ...rest);
};
