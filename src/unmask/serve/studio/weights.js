// Attention weights as the server sends them: float16, little-endian, base64, [layers, heads, tokens, tokens].

let halves = null;

function table() {
  const values = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    const size =
      exponent === 0
        ? fraction * 2 ** -24
        : exponent === 31
          ? NaN
          : (1 + fraction / 1024) * 2 ** (exponent - 15);
    values[bits] = bits & 32768 ? -size : size;
  }
  return values;
}

/** `weights(layer, head)` gives a [tokens × tokens] array; numbers are widened only when asked for. */
export function readWeights({ weights, heads, tokens }) {
  const letters = atob(weights);
  const bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place++) bytes[place] = letters.charCodeAt(place);
  const raw = new DataView(bytes.buffer);
  const cells = tokens.length ** 2;
  halves ??= table();
  return (layer, head) => {
    const first = (layer * heads + head) * cells;
    const values = new Float32Array(cells);
    for (let cell = 0; cell < cells; cell++) values[cell] = halves[raw.getUint16(2 * (first + cell), true)];
    return values;
  };
}

/** A square of numbers, drawn at most `size` pixels wide: each pixel shows the largest weight under it. */
export function drawSquare(canvas, values, tokens, size, colour) {
  const side = Math.min(tokens, size);
  canvas.width = canvas.height = side;
  const peaks = new Float32Array(side * side);
  for (let row = 0; row < tokens; row++) {
    const y = Math.floor((row * side) / tokens);
    for (let column = 0; column < tokens; column++) {
      const cell = y * side + Math.floor((column * side) / tokens);
      peaks[cell] = Math.max(peaks[cell], values[row * tokens + column]);
    }
  }
  const image = new ImageData(side, side);
  peaks.forEach((peak, cell) => image.data.set([...colour, Math.round(255 * Math.sqrt(peak))], 4 * cell));
  canvas.getContext("2d").putImageData(image, 0, 0);
}
