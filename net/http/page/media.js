// Pictures and sounds of messages: what a file is by its first bytes, how it is sent, and how it is shown.

const mediumMax = 20 * 1024 * 1024;  // bytes of a file; more is refused by the worker as a rule
const mediaKinds = {
  image: {taken: 'vision', name: 'pictures', files: 'PNG, JPEG or WebP'},
  audio: {taken: 'audio', name: 'sounds', files: 'WAV or MP3'},
};
const mediaTypes = {
  'image/png': 'image',
  'image/jpeg': 'image',
  'image/webp': 'image',
  'audio/wav': 'audio',
  'audio/mpeg': 'audio'
};

/// The type of a file that can be sent, or ''.
function mediumType(bytes, claimed) {
  const text = (from, to) => String.fromCharCode(...bytes.slice(from, to));
  if (text(0, 4) === '\x89PNG') return 'image/png';
  if (text(0, 3) === '\xff\xd8\xff') return 'image/jpeg';
  if (text(0, 4) === 'RIFF' && text(8, 12) === 'WEBP') return 'image/webp';
  if (text(0, 4) === 'RIFF' && text(8, 12) === 'WAVE') return 'audio/wav';
  const framed = bytes[0] === 0xff && (bytes[1] & 0xe0) === 0xe0;
  return claimed.startsWith('audio/') && (framed || text(0, 3) === 'ID3') ? 'audio/mpeg' : '';
}
/// {name, type, data}, with the file in base64.
function readMedium(file, type) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () =>
      resolve({name: file.name, type, data: reader.result.slice(reader.result.indexOf(',') + 1)});
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
const mediumUrl = ({type, data}) => `data:${type};base64,${data}`;

/// Content as it is sent: media first, and then the text.
function withMedia(content, media) {
  if (!media || !media.length) return content;
  const parts = media.map(
    one => mediaTypes[one.type] === 'image' ?
      {type: 'image_url', image_url: {url: mediumUrl(one)}} :
      {type: 'input_audio', input_audio: {data: one.data, format: one.type === 'audio/wav' ? 'wav' : 'mp3'}});
  if (content) parts.push({type: 'text', text: content});
  return parts;
}
/// A picture, or the name of a sound.
function showMedium(medium) {
  if (mediaTypes[medium.type] !== 'image') return make('span', 'chip sound', medium.name);
  const picture = make('img', 'medium');
  picture.alt = picture.title = medium.name;
  picture.src = mediumUrl(medium);
  return picture;
}

/// Whether a file's media are what this page would have kept.
const isMedium = one => one && typeof one.name === 'string' && Object.hasOwn(mediaTypes, one.type) &&
  typeof one.data === 'string' && /^[A-Za-z0-9+/]+={0,2}$/.test(one.data);
