// What both the page and the Worker that reads Markdown need to know of a text.

const entities = {amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0'};
const decode = text => text.replace(
  /&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(amp|lt|gt|quot|apos|nbsp));/gi, (all, decimal, hex, name) => {
    if (name) return entities[name.toLowerCase()];
    const code = decimal ? Number(decimal) : parseInt(hex, 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : all;
  });

/// An absolute address that a browser may be sent to, or null.
function addressOf(href) {
  try {
    const url = new URL(decode(href || ''));
    return /^(https?|mailto):$/.test(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
