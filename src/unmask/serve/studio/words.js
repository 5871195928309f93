// Words of a text and their places. Places are counted in UTF-16 units here and in code points by the server.

const MASKS = ["[MASK]", "<mask>"];
const WORD = /\[MASK\]|<mask>|[\p{L}\p{N}\p{M}]+(?:['’-][\p{L}\p{N}\p{M}]+)*|[^\s]/gu;

/** The words and signs of a text: {text, start, end, mask}. */
export function splitWords(text) {
  return [...text.matchAll(WORD)].map(({ 0: word, index }) => ({
    text: word,
    start: index,
    end: index + word.length,
    mask: MASKS.includes(word),
  }));
}

/** Whether it has a letter or a digit: signs alone are not worth hiding. */
export const isWord = (text) => /[\p{L}\p{N}]/u.test(text);

/** The text with the chosen words hidden, and where each word stands in it, in code points. */
export function hide(text, words, chosen, maskToken) {
  let masked = "";
  let last = 0;
  let length = 0;
  const write = (piece) => {
    masked += piece;
    return (length += [...piece].length);
  };
  const places = words.map((word, index) => {
    const start = write(text.slice(last, word.start));
    last = word.end;
    return { start, end: write(word.mask || chosen.has(index) ? maskToken : word.text) };
  });
  return { masked: masked + text.slice(last), places };
}

/** A slicer by code points, for the places that the server gives. */
export function slicer(text) {
  const letters = [...text];
  return (start, end = letters.length) => letters.slice(start, end).join("");
}

/** A piece of a vocabulary as people read it. */
export const pieceText = (piece) => (piece.startsWith("##") ? `-${piece.slice(2)}` : piece.trim() || "␣");
