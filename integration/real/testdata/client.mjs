// An MCP client of the TypeScript SDK that does what it is told, one line of JSON
// at a time, and says what came of it in another: {"id", "result"} or {"id",
// "error"}. When its list of tools changes it says {"changed": [names]}.
//
//   client.mjs legacy|auto http URL TOKEN
//   client.mjs legacy|auto stdio COMMAND ARG...
//
// It understands {"id", "op"}: "era"; "tools"; "resources"; "prompts"; "read" with
// "uri"; "prompt" with "name" and "args"; "call" with "name" and "args", and with
// "abortAfter", in milliseconds, if it is to be cancelled.
import { createInterface } from 'node:readline';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [mode, transport, target, ...rest] = process.argv.slice(2);

const say = (message) => process.stdout.write(JSON.stringify(message) + '\n');
const names = (list) => list.map((x) => x.name).sort();

const client = new Client({ name: 'attached', version: '1' }, {
  versionNegotiation: { mode },
  listChanged: {
    tools: { onChanged: (error, tools) => say(error ? { broken: String(error) } : { changed: names(tools) }) },
  },
});

await client.connect(transport === 'http'
  ? new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } } })
  : new StdioClientTransport({ command: target, args: rest, env: process.env, stderr: 'inherit' }));

const operations = {
  era: async () => client.getProtocolEra?.() ?? client.getNegotiatedProtocolVersion?.(),
  tools: async () => names((await client.listTools(undefined, { cacheMode: 'refresh' })).tools),
  resources: async () => (await client.listResources()).resources.map((r) => r.uri).sort(),
  prompts: async () => names((await client.listPrompts()).prompts),
  read: async ({ uri }) => client.readResource({ uri }),
  prompt: async ({ name, args }) => client.getPrompt({ name, arguments: args }),
  call: async ({ name, args, abortAfter }) => {
    const progress = [];
    const abort = new AbortController();
    if (abortAfter !== undefined) setTimeout(() => abort.abort(), abortAfter);
    const result = await client.callTool({ name, arguments: args }, {
      signal: abort.signal,
      onprogress: (p) => progress.push(p.progress),
    });
    return { result, progress };
  },
};

say({ connected: true });
for await (const line of createInterface({ input: process.stdin })) {
  const ask = JSON.parse(line);
  operations[ask.op](ask).then(
    (result) => say({ id: ask.id, result }),
    (error) => say({ id: ask.id, error: String(error) }),
  );
}
await client.close();
