// Loads a trace into Perfetto's trace processor, as its user interface does, and asks for kernels.
//
//     node perfetto.js FOLDER TRACE
//
// FOLDER holds `engine_bundle.js` and the `.wasm` files of Perfetto's user interface. Prints one
// JSON object. Source: protos/perfetto/trace_processor/trace_processor.proto of Perfetto.
"use strict";
const fs = require("fs");
const path = require("path");

const QUERY = "select count(*), sum(dur) from slice where lower(category) = 'kernel'";
const PIECE = 32 << 20;
const APPEND = 1, FINALIZE = 2, QUERY_STREAMING = 3; // TraceProcessorRpc.TraceProcessorMethod
const TRACE_DATA = 101, QUERY_ARGS = 103, APPEND_RESULT = 201, QUERY_RESULT = 203; // fields

// --- Protocol buffers, as much of them as is needed ---

function varint(value) {
  const bytes = [];
  for (; value >= 0x80; value = Math.floor(value / 0x80)) bytes.push((value % 0x80) | 0x80);
  return Buffer.from([...bytes, value]);
}

const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);

function readVarint(data, at) {
  let value = 0n, shift = 0n, byte;
  do {
    byte = data[at++];
    value |= BigInt(byte & 0x7f) << shift;
    shift += 7n;
  } while (byte & 0x80);
  return [value, at];
}

// Fields of a message as [number, value] in their order.
function fields(data) {
  const found = [];
  for (let at = 0, tag, value; at < data.length; ) {
    [tag, at] = readVarint(data, at);
    const wire = Number(tag & 7n);
    if (wire === 0) [value, at] = readVarint(data, at);
    else {
      let length = wire === 1 ? 8n : 4n;
      if (wire === 2) [length, at] = readVarint(data, at);
      value = data.subarray(at, (at += Number(length)));
    }
    found.push([Number(tag >> 3n), value]);
  }
  return found;
}

const all = (message, field) => fields(message).filter(([n]) => n === field).map(([, v]) => v);

// --- The engine: a worker of a browser, without one ---

function startEngine(folder) {
  const worker = {};
  const read = (name) => fs.readFileSync(path.join(folder, path.basename(name)));
  class FromFolder {
    open(_method, url) { this.url = url; }
    send() { this.response = read(this.url); }
  }
  const given = {
    self: worker, process: undefined, require: undefined, module: undefined, exports: undefined,
    WorkerGlobalScope: Object, XMLHttpRequest: FromFolder, location: { href: "https://perfetto/" },
    console: { ...console, log() {}, warn() {} },
  };
  worker.location = given.location;
  const bundle = read("engine_bundle.js").toString();
  new Function(...Object.keys(given), bundle)(...Object.values(given));
  const answers = [];
  const port = { postMessage: (answer) => answers.push(Buffer.from(answer)) };
  worker.onmessage({ data: port });
  let sequence = 0;
  // Sends one request; the engine has answered when this returns.
  return function ask(method, ...more) {
    const request = Buffer.concat([number(1, ++sequence), number(2, method), ...more]);
    answers.length = 0;
    port.onmessage({ data: new Uint8Array(bytes(1, request)) });
    return all(Buffer.concat(answers), 1);
  };
}

// --- What is asked ---

function check(responses, field, errorField) {
  for (const response of responses) {
    for (const [n, value] of fields(response)) {
      if (n === 5) throw new Error(value.toString());
      const error = n === field ? all(value, errorField)[0] : undefined;
      if (error && error.length) throw new Error(error.toString());
    }
  }
  return responses.flatMap((r) => all(r, field));
}

function load(ask, trace) {
  const file = fs.openSync(trace);
  const piece = Buffer.alloc(PIECE);
  for (let size; (size = fs.readSync(file, piece)); ) {
    check(ask(APPEND, bytes(TRACE_DATA, piece.subarray(0, size))), APPEND_RESULT, 2);
  }
  check(ask(FINALIZE), APPEND_RESULT, 2);
}

function integers(ask, sql) {
  const responses = ask(QUERY_STREAMING, bytes(QUERY_ARGS, bytes(1, Buffer.from(sql))));
  const batches = check(responses, QUERY_RESULT, 2).flatMap((result) => all(result, 3));
  const packed = Buffer.concat(batches.flatMap((batch) => all(batch, 2)));
  const found = [];
  for (let at = 0, value; at < packed.length; found.push(Number(value))) {
    [value, at] = readVarint(packed, at);
  }
  return found;
}

async function main() {
  const ask = startEngine(process.argv[2]);
  await new Promise((resolve) => setTimeout(resolve, 0));
  load(ask, process.argv[3]);
  const [kernels, total] = integers(ask, QUERY);
  console.log(JSON.stringify({ kernels, kernel_ns: total ?? 0 }));
}

main().catch((error) => {
  console.error(String(error).slice(0, 500));
  process.exit(1);
});
