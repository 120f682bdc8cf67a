// What classes are called, and which class of a network a picture's label means.

const plain = (name) => name.toUpperCase().toLowerCase().replace(/[ _-]/g, "");  // as the package compares names

// The network's own names; else those of the picture's data, as in results files, if there are as many; else numbers.
export function namesFor(net, { classes = [] }) {
  if (net.names) return net.names;
  return classes.length === net.classes ? classes : Array.from({ length: net.classes }, (_, c) => `class ${c}`);
}

// The number that the network has for the picture's label: by name where both sides have names, else by number. Null if
// it is not known, because there is no label or a number would not mean the same to both.
export function truthFor(net, { label = null, classes = [] }) {
  if (label === null) return null;
  if (net.names && classes.length) return only(net.names.map(plain), plain(classes[label]));
  return label < net.classes && (!classes.length || classes.length === net.classes) ? label : null;
}

function only(names, name) {
  const at = names.indexOf(name);
  return at >= 0 && at === names.lastIndexOf(name) ? at : null;
}
