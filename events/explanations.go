package events

// explanations is the closed list of codes.
var explanations = []Explanation{
	{
		InvalidID, "An id holds something else than ASCII letters, digits, '-' and '_', is empty or too long.",
		"Choose another id; the name it had elsewhere can be kept as a label.", false,
	},
	{
		InvalidDefinition, "The definition cannot be used as it is written.",
		"The problems name each member and what it should be; correct them and apply again.", false,
	},
	{
		UnresolvedVariable, "A variable or secret that the definition refers to has no value on the worker.",
		"Set the variable in the worker's environment, or the secret with its key; the message names both.", false,
	},
	{
		CommandNotFound, "The command is not an executable file on the worker's PATH.",
		"Install the program on that host, or give its absolute path.", false,
	},
	{
		CwdNotFound, "The working directory does not exist on the worker.",
		"Create the directory, or correct cwd.", false,
	},
	{
		SpawnFailed, "The operating system would not start the process.",
		"The message holds its reason: often a missing permission, a wrong file format or a limit on processes.", true,
	},
	{
		StartupCrash, "The process ended before the handshake was done.",
		"Read the tail of its stderr in the event; run the command by hand with the same environment.", true,
	},
	{
		ConnectTimeout, "The server did not finish the handshake and its first tool list in time.",
		"See what it waits for; if it is only slow, raise connectTimeoutMs.", true,
	},
	{
		ConnectionRefused, "Nothing listens at the server's address.",
		"Start the server, or correct host and port in the url.", true,
	},
	{
		DNS, "The host name of the url could not be resolved on the worker.",
		"Check the name, and the worker's resolver.", true,
	},
	{
		TLS, "The TLS handshake with the server failed.",
		"The message says which check failed: an unknown authority, another host name, or an expired certificate.", false,
	},
	{
		AuthenticationNeeded, "The server wants credentials, or refused those it was given.",
		"Set or renew the secret that the definition's headers refer to.", false,
	},
	{
		ProtocolUnsupported, "Server and toolfleet have no MCP revision in common.",
		"Update the server, or set protocol to a revision it knows.", false,
	},
	{
		HandshakeFailed, "The server answered the handshake with an error or with something that is no answer to it.",
		"Check that the command or url really is an MCP server; the message holds its words.", true,
	},
	{
		StdoutNotJSONRPC, "The process writes other things than MCP messages to its stdout.",
		"Send logs and banners to stderr; some programs have a flag for it.", false,
	},
	{
		FrameTooLarge, "One message of the server exceeds the limit for a frame.",
		"Let the tool return less, or a reference to the data.", true,
	},
	{
		ToolsListFailed, "The server said that it has tools, but did not list them.",
		"The message holds its answer; this is usually a fault of the server.", true,
	},
	{
		Exited, "The process ended by itself.",
		"Read its exit status and the tail of its stderr in the event.", true,
	},
	{
		Killed, "The process was ended by a signal that toolfleet did not send.",
		"Often the kernel for want of memory, or a person; the event names the signal.", true,
	},
	{
		ConnectionLost, "The connection to the server broke.",
		"Nothing needs to be done if it comes back; else look at the network and the server's log.", true,
	},
	{
		PingTimeout, "The server stopped answering.",
		"It was restarted; if this repeats, see what it does at those times.", true,
	},
	{
		StopHung, "The instance was told to stop and is still there after its grace period.",
		"End the process on its host by hand; the instance is given to no other worker before that.", false,
	},
	{
		LeaseLost, "The worker could not renew its lease in time and stopped what it ran, so that no second copy could exist.",
		"Look at the connection between the worker and NATS.", true,
	},
	{
		NoOwner, "Nobody answers calls to the instance: it has no owner, or its owner is gone.",
		"The call was not executed. See why the instance is not ready, and call again when it is.", true,
	},
	{
		CallTimeout, "The call was not answered within its time limit.",
		"The server may have executed it, or still be at it. If it is only slow, raise callTimeoutMs.", false,
	},
	{
		CallCancelled, "The caller cancelled the call.",
		"Nothing needs to be done; the server may have executed a part of it.", false,
	},
	{
		CallInterrupted, "The connection between the caller and the worker, or the worker and the server, broke during the call.",
		"Whether it was executed is not known: look before you call again, unless the tool only reads.", false,
	},
	{
		RPCError, "The server answered the call with a JSON-RPC error.",
		"The message is the server's; often the arguments are wrong.", false,
	},
	{
		HistoryFull, "The event stream has reached its limit of bytes; events that add to the fleet are refused.",
		"Raise max_bytes of the stream tf-<fleet>-events; running instances keep serving meanwhile.", false,
	},
	{
		HistoryRegressed, "The event stream is not the one that was read before: it was recreated, or has lost its end.",
		"Restore it from a backup, or accept what is left: views are rebuilt from it under a new history incarnation.", false,
	},
	{
		HistoryIncomplete, "Events are missing inside the stream, or do not link to each other.",
		"Restore the damaged replica or the stream from a backup; the message names the first missing sequence.", false,
	},
	{
		OtherFailure, "A cause that has no code of its own.",
		"The message is all there is; please report it.", true,
	},
}
