// Columns of the page: base64, compressed by zlib, integers as LEB128.

import { unzlibSync } from "fflate";

/** Bytes of a base64 text. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Decompress with the browser's own code, or with a library where it has none. */
export async function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  if (typeof DecompressionStream === "undefined") return unzlibSync(bytes);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Integers of variable length, up to 2^53. */
export function varints(bytes: Uint8Array, count: number): Float64Array {
  const values = new Float64Array(count);
  let place = 0;
  for (let i = 0; i < count; i++) {
    let byte = bytes[place++];
    let value = byte & 0x7f;
    let scale = 128;
    while (byte >= 0x80) {
      byte = bytes[place++];
      value += (byte & 0x7f) * scale;
      scale *= 128;
    }
    values[i] = value;
  }
  if (place !== bytes.length) throw new Error("a column of the timeline is damaged");
  return values;
}
