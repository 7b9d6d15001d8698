"""Archival PDF: PDF/A-3 with the XML of an e-invoice embedded, as Factur-X and ZUGFeRD specify."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import cache
from html import escape
from io import BytesIO

from PIL import ImageCms
from pypdf import PdfWriter
from pypdf.generic import (
    ArrayObject,
    ByteStringObject,
    DictionaryObject,
    NameObject,
    NumberObject,
    StreamObject,
    TextStringObject,
)

from usagebill.printing.fonts import HANGUL

# The file name that Factur-X and ZUGFeRD prescribe for the XML inside a PDF.
ATTACHED_XML = "factur-x.xml"
_PRODUCER = "usagebill"
# Same content, same bytes: files contain no creation time.
_MADE = datetime(2000, 1, 1, tzinfo=UTC)
# The bytes of an ICC profile's creation time.
_PROFILE_DATE = slice(24, 36)


def with_xml(pdf: bytes, xml: str, *, title: str, author: str) -> bytes:
    """One of our PDFs as PDF/A-3b, with `xml` as its machine-readable alternative.

    A PDF with Korean text is not marked as PDF/A: its font is not embedded.
    """
    embedded = HANGUL.encode() not in pdf
    writer = PdfWriter(clone_from=BytesIO(pdf))
    writer.pdf_header = "%PDF-1.7"
    root = writer.root_object
    attached = writer.add_attachment(ATTACHED_XML, xml.encode())
    attached.subtype = NameObject("/text/xml")
    attached.alternative_name = TextStringObject(ATTACHED_XML)
    attached.modification_date = _MADE
    attached.size = NumberObject(len(xml.encode()))
    attached.associated_file_relationship = NameObject("/Alternative")
    attached.description = TextStringObject("The invoice in CII (EN 16931)")
    root[NameObject("/AF")] = ArrayObject([attached.pdf_object.indirect_reference])
    root[NameObject("/OutputIntents")] = ArrayObject([writer._add_object(_output_intent(writer))])
    described = StreamObject()
    described.set_data(_description(title, author, archival=embedded).encode())
    described[NameObject("/Type")] = NameObject("/Metadata")
    described[NameObject("/Subtype")] = NameObject("/XML")
    root[NameObject("/Metadata")] = writer._add_object(described)
    writer.metadata = None
    writer.add_metadata(
        {
            "/Title": _plain(title),
            "/Author": _plain(author),
            "/Producer": _PRODUCER,
            "/CreationDate": _MADE.strftime("D:%Y%m%d%H%M%S+00'00'"),
            "/ModDate": _MADE.strftime("D:%Y%m%d%H%M%S+00'00'"),
        }
    )
    digest = ByteStringObject(hashlib.sha256(pdf + xml.encode()).digest()[:16])
    writer._ID = ArrayObject([digest, digest])
    made = BytesIO()
    writer.write(made)
    return made.getvalue()


@cache
def _profile() -> bytes:
    """sRGB as an ICC profile."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    profile[_PROFILE_DATE] = b"".join(
        number.to_bytes(2, "big") for number in (_MADE.year, _MADE.month, _MADE.day, 0, 0, 0)
    )
    return bytes(profile)


def _output_intent(writer: PdfWriter) -> DictionaryObject:
    profile = StreamObject()
    profile.set_data(_profile())
    profile[NameObject("/N")] = NumberObject(3)
    return DictionaryObject(
        {
            NameObject("/Type"): NameObject("/OutputIntent"),
            NameObject("/S"): NameObject("/GTS_PDFA1"),
            NameObject("/OutputConditionIdentifier"): TextStringObject("sRGB IEC61966-2.1"),
            NameObject("/Info"): TextStringObject("sRGB IEC61966-2.1"),
            NameObject("/DestOutputProfile"): writer._add_object(profile.flate_encode()),
        }
    )


_ARCHIVAL = """<rdf:Description rdf:about="" xmlns:pdfaid="http://www.aiim.org/pdfa/ns/id/">
   <pdfaid:part>3</pdfaid:part>
   <pdfaid:conformance>B</pdfaid:conformance>
  </rdf:Description>"""
_PROPERTIES = "".join(
    f"""
      <rdf:li rdf:parseType="Resource">
       <pdfaProperty:name>{name}</pdfaProperty:name>
       <pdfaProperty:valueType>Text</pdfaProperty:valueType>
       <pdfaProperty:category>external</pdfaProperty:category>
       <pdfaProperty:description>{description}</pdfaProperty:description>
      </rdf:li>"""
    for name, description in (
        ("DocumentFileName", "The name of the embedded XML document"),
        ("DocumentType", "The type of the hybrid document in capital letters, e.g. INVOICE or ORDER"),
        ("Version", "The actual version of the standard applying to the embedded XML document"),
        ("ConformanceLevel", "The conformance level of the embedded XML document"),
    )
)


def _description(title: str, author: str, *, archival: bool) -> str:
    """The XMP packet: the kind of file, and the name of its XML."""
    made = _MADE.isoformat()
    title, author = escape(_plain(title)), escape(_plain(author))
    return f"""<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  {_ARCHIVAL if archival else ""}
  <rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/">
   <dc:title><rdf:Alt><rdf:li xml:lang="x-default">{title}</rdf:li></rdf:Alt></dc:title>
   <dc:creator><rdf:Seq><rdf:li>{author}</rdf:li></rdf:Seq></dc:creator>
  </rdf:Description>
  <rdf:Description rdf:about="" xmlns:pdf="http://ns.adobe.com/pdf/1.3/">
   <pdf:Producer>{_PRODUCER}</pdf:Producer>
  </rdf:Description>
  <rdf:Description rdf:about="" xmlns:xmp="http://ns.adobe.com/xap/1.0/">
   <xmp:CreateDate>{made}</xmp:CreateDate>
   <xmp:ModifyDate>{made}</xmp:ModifyDate>
  </rdf:Description>
  <rdf:Description rdf:about="" xmlns:fx="urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#">
   <fx:DocumentType>INVOICE</fx:DocumentType>
   <fx:DocumentFileName>{ATTACHED_XML}</fx:DocumentFileName>
   <fx:Version>1.0</fx:Version>
   <fx:ConformanceLevel>EN 16931</fx:ConformanceLevel>
  </rdf:Description>
  <rdf:Description rdf:about=""
    xmlns:pdfaExtension="http://www.aiim.org/pdfa/ns/extension/"
    xmlns:pdfaSchema="http://www.aiim.org/pdfa/ns/schema#"
    xmlns:pdfaProperty="http://www.aiim.org/pdfa/ns/property#">
   <pdfaExtension:schemas><rdf:Bag><rdf:li rdf:parseType="Resource">
     <pdfaSchema:schema>Factur-X PDFA Extension Schema</pdfaSchema:schema>
     <pdfaSchema:namespaceURI>urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#</pdfaSchema:namespaceURI>
     <pdfaSchema:prefix>fx</pdfaSchema:prefix>
     <pdfaSchema:property><rdf:Seq>{_PROPERTIES}
     </rdf:Seq></pdfaSchema:property>
   </rdf:li></rdf:Bag></pdfaExtension:schemas>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="r"?>"""


def _plain(text: str) -> str:
    return "".join(character for character in text if character.isprintable())
