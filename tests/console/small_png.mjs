// Makes a screenshot small: a PNG with at most 256 colors, of which a page of text has hardly more.

import * as zlib from "node:zlib";

const { deflateSync, inflateSync } = zlib;

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

function* chunksOf(png) {
  for (let at = signature.length; at < png.length; ) {
    const size = png.readUInt32BE(at);
    yield { type: png.toString("latin1", at + 4, at + 8), data: png.subarray(at + 8, at + 8 + size) };
    at += size + 12;
  }
}

function chunk(type, data) {
  const head = Buffer.alloc(8);
  head.writeUInt32BE(data.length);
  head.write(type, 4, "latin1");
  const check = Buffer.alloc(4);
  check.writeUInt32BE(checksum(Buffer.concat([head.subarray(4), data])));
  return Buffer.concat([head, data, check]);
}

/** zlib.crc32 is newer than the oldest Node that builds the page. */
function checksum(bytes) {
  if (zlib.crc32) return zlib.crc32(bytes);
  let value = 0xffffffff;
  for (const byte of bytes) {
    value ^= byte;
    for (let bit = 0; bit < 8; ++bit) value = (value >>> 1) ^ (value & 1 ? 0xedb88320 : 0);
  }
  return ~value >>> 0;
}

function paeth(left, above, corner) {
  const guess = left + above - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - above), Math.abs(guess - corner)];
  return a <= b && a <= c ? left : b <= c ? above : corner;
}

/** Returns the pixels as numbers 0xRRGGBB. Chromium writes 8 bits for each of 3 or 4 channels, without interlacing. */
function decode(png) {
  const parts = [...chunksOf(png)];
  const header = parts.find((one) => one.type === "IHDR").data;
  const [width, height, channels] = [header.readUInt32BE(0), header.readUInt32BE(4), header[9] === 6 ? 4 : 3];
  const bytes = inflateSync(Buffer.concat(parts.filter((one) => one.type === "IDAT").map((one) => one.data)));
  const row = width * channels;
  let before = Buffer.alloc(row);
  const pixels = new Uint32Array(width * height);
  for (let y = 0; y < height; ++y) {
    const filter = bytes[y * (row + 1)];
    const line = Buffer.from(bytes.subarray(y * (row + 1) + 1, (y + 1) * (row + 1)));
    for (let x = 0; x < row; ++x) {
      const left = x < channels ? 0 : line[x - channels];
      const corner = x < channels ? 0 : before[x - channels];
      const added = [0, left, before[x], (left + before[x]) >> 1, paeth(left, before[x], corner)][filter];
      line[x] = line[x] + added;
    }
    for (let x = 0; x < width; ++x) pixels[y * width + x] = line.readUIntBE(x * channels, 3);
    before = line;
  }
  return { width, height, pixels };
}

export function smallPng(png) {
  const { width, height, pixels } = decode(png);
  const counts = new Map();
  for (const color of pixels) counts.set(color, (counts.get(color) ?? 0) + 1);
  const palette = [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, 256).map(([color]) => color);
  const places = new Map(palette.map((color, place) => [color, place]));
  const distance = (a, b) => ((a >> 16) - (b >> 16)) ** 2 + (((a >> 8) & 255) - ((b >> 8) & 255)) ** 2 + ((a & 255) - (b & 255)) ** 2;
  const placeOf = (color) => {
    let place = places.get(color);
    if (place !== undefined) return place;
    place = 0;
    for (let other = 1; other < palette.length; ++other)
      if (distance(palette[other], color) < distance(palette[place], color)) place = other;
    places.set(color, place);
    return place;
  };
  const lines = Buffer.alloc(height * (width + 1));
  for (let y = 0; y < height; ++y)
    for (let x = 0; x < width; ++x) lines[y * (width + 1) + 1 + x] = placeOf(pixels[y * width + x]);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width);
  header.writeUInt32BE(height, 4);
  header.set([8, 3], 8);
  const colors = Buffer.from(palette.flatMap((color) => [color >> 16, (color >> 8) & 255, color & 255]));
  return Buffer.concat([signature, chunk("IHDR", header), chunk("PLTE", colors), chunk("IDAT", deflateSync(lines, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}
