// What classes are called, and which class of a network a picture's label means.

const plain = (name) => name.toUpperCase().toLowerCase().replace(/[ _-]/g, "");  // as the package compares names

// The network's own names; else those of the picture's data, as in results files, if there are as many; else numbers.
export function namesFor(net, { classes = [] }) {
  if (net.names) return net.names;
  return classes.length === net.classes ? classes : Array.from({ length: net.classes }, (_, c) => `class ${c}`);
}

// Whether labels mean the same to the network and to the data: by name where both have names, else by number. If they do
// not, the command refuses the data. `labels` is how many classes the labels of the data count.
export function matches(net, { label = null, classes = [], labels = 0 }) {
  if (label === null) return true;
  if (!classes.length) return Math.max(labels, label + 1) <= net.classes;
  if (!net.names) return classes.length === net.classes;
  const names = net.names.map(plain), places = classes.map((name) => only(names, plain(name)));
  return !places.includes(null) && new Set(places).size === places.length;
}

// The number that the network has for the picture's label; null if there is no label, or none that it knows.
export function truthFor(net, picture) {
  const { label = null, classes = [] } = picture;
  if (label === null || !matches(net, picture)) return null;
  return net.names && classes.length ? only(net.names.map(plain), plain(classes[label])) : label;
}

// Whether the command needs the picture as a file, without its label: it is in no data, or the command would refuse the
// label. For a network of one's own the command may know the names of its classes or not, so both have to fit.
export function needsFile({ net, own }, picture) {
  return Boolean(picture.own) || !matches(net, picture) || Boolean(own && !matches({ ...net, names: null }, picture));
}

function only(names, name) {
  const at = names.indexOf(name);
  return at >= 0 && at === names.lastIndexOf(name) ? at : null;
}
