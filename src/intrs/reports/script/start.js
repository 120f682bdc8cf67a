// Everything is defined: begin.

startCurves();
startTraining();
startTable();
startGallery();
